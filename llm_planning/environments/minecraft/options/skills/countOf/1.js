// How many items the inventory has whose names end so: countOf(bot, "_log") counts all kinds of log.
async function countOf(bot, ending) {
  const fitting = bot.inventory.items().filter(({ name }) => name.endsWith(ending));
  return fitting.reduce((sum, { count }) => sum + count, 0);
}
