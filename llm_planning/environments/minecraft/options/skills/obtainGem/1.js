// Mines count of what an ore below ground gives: obtainGem(bot, "diamond", "diamond_ore", 3).
async function obtainGem(bot, gem, ore, count = 1) {
  while (bot.inventory.count(gem) < count) {
    await obtainIronPickaxe(bot);
    if (bot.sees(ore)) await mineBlock(bot, gem, count - bot.inventory.count(gem));
    else await exploreUntil(bot, ore);
  }
}
