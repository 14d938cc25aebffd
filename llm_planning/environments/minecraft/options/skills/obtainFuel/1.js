// Gathers the fuel to smelt count items: coal that is near, or else logs.
async function obtainFuel(bot, count = 1) {
  const heat = async () => 8 * bot.inventory.count("coal") + 1.5 * (await countOf(bot, "_log"));
  while ((await heat()) < count) {
    if (bot.sees("coal_ore") && (await hasPickaxe(bot, "wooden"))) {
      await mineBlock(bot, "coal", 1);
    } else {
      await obtainLogs(bot, Math.ceil(count / 1.5));
    }
  }
}
