// Makes count sticks, those that are held included.
async function obtainSticks(bot, count = 1) {
  while (bot.inventory.count("stick") < count) {
    await obtainPlanks(bot, 2);
    await craftItem(bot, "stick", 4);
  }
}
