// Puts a crafting table up, and makes it if there is none.
async function setUpTable(bot) {
  if (bot.sees("crafting_table")) return;
  if (bot.inventory.count("crafting_table") === 0) {
    await obtainPlanks(bot, 4);
    await craftItem(bot, "crafting_table", 1);
  }
  await placeItem(bot, "crafting_table", bot.entity.position.offset(1, 0, 0));
}
