// Gathers count logs of any wood, those that are held included.
async function obtainLogs(bot, count = 1) {
  const woods = ["oak", "birch", "spruce", "jungle", "acacia", "dark_oak"];
  while ((await countOf(bot, "_log")) < count) {
    const wood = woods.find((one) => bot.sees(`${one}_log`));
    if (wood === undefined) await exploreUntil(bot, "oak_log");
    else await mineBlock(bot, `${wood}_log`, count - (await countOf(bot, "_log")));
  }
}
