// Mines count cobblestone, those that are held included.
async function obtainCobblestone(bot, count = 1) {
  while (bot.inventory.count("cobblestone") < count) {
    await obtainWoodenPickaxe(bot);
    if (bot.sees("stone") || bot.sees("cobblestone")) {
      await mineBlock(bot, "cobblestone", count - bot.inventory.count("cobblestone"));
    } else {
      await exploreUntil(bot, "stone");
    }
  }
}
