// Sees to it that there is a sword, which keeps monsters off.
async function obtainSword(bot) {
  const swords = bot.inventory.items().filter(({ name }) => name.endsWith("_sword"));
  if (swords.length > 0) return;
  await obtainCobblestone(bot, 2);
  await obtainSticks(bot, 1);
  await setUpTable(bot);
  await craftItem(bot, "stone_sword", 1);
}
