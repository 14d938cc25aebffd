// Shears a sheep for its wool, and makes the shears.
async function shearSheep(bot) {
  const wool = () => bot.inventory.count("white_wool");
  const isDone = () => bot.inventory.count("shears") > 0 && wool() > 0;
  await keepTrying(isDone, async () => {
    if (bot.inventory.count("shears") === 0) {
      await obtainIngots(bot, "iron", 2);
      await craftItem(bot, "shears", 1);
    }
    await shearNear(bot, "sheep", 1);
  });
}
