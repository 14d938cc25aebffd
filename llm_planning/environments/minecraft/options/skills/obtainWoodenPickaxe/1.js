// Sees to it that there is a pickaxe, of wood or better, from bare hands if need be.
async function obtainWoodenPickaxe(bot) {
  if (await hasPickaxe(bot, "wooden")) return;
  await obtainLogs(bot, 4);
  await setUpTable(bot);
  await obtainSticks(bot, 2);
  await obtainPlanks(bot, 3);
  await craftItem(bot, "wooden_pickaxe", 1);
}
