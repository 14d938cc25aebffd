// Makes count planks of any wood, those that are held included.
async function obtainPlanks(bot, count = 1) {
  while ((await countOf(bot, "_planks")) < count) {
    await obtainLogs(bot, 1);
    const log = bot.inventory.items().find(({ name }) => name.endsWith("_log"));
    const missing = count - (await countOf(bot, "_planks"));
    const planks = log.name.replace("_log", "_planks");
    await craftItem(bot, planks, Math.min(4 * log.count, missing));
  }
}
