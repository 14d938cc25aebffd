// Smelts count ingots of a metal, "iron" or "gold", those that are held included.
async function obtainIngots(bot, metal, count = 1) {
  const ingot = `${metal}_ingot`;
  const ore = `${metal}_ore`;
  const missing = () => count - bot.inventory.count(ingot);
  while (missing() > 0) {
    if (metal === "gold") await obtainIronPickaxe(bot);
    else await obtainStonePickaxe(bot);
    await obtainFuel(bot, missing());
    if (bot.inventory.count(ore) >= missing()) {
      await setUpFurnace(bot);
      await smeltItem(bot, ingot, missing());
    } else if (bot.sees(ore)) {
      await mineBlock(bot, ore, missing() - bot.inventory.count(ore));
    } else {
      await exploreUntil(bot, ore);
    }
  }
}
