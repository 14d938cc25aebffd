// Puts a furnace up, and makes it if there is none.
async function setUpFurnace(bot) {
  if (bot.sees("furnace")) return;
  if (bot.inventory.count("furnace") === 0) {
    await obtainCobblestone(bot, 8);
    await setUpTable(bot);
    await craftItem(bot, "furnace", 1);
  }
  await placeItem(bot, "furnace", bot.entity.position.offset(0, 0, 1));
}
