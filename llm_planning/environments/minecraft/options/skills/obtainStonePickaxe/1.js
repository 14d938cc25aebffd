// Sees to it that there is a pickaxe of stone or better, from bare hands if need be.
async function obtainStonePickaxe(bot) {
  if (await hasPickaxe(bot, "stone")) return;
  await obtainWoodenPickaxe(bot);
  await obtainSticks(bot, 2);
  await obtainCobblestone(bot, 3);
  await setUpTable(bot);
  await craftItem(bot, "stone_pickaxe", 1);
}
