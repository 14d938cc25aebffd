// Sees to it that there is a pickaxe of iron or better, from bare hands if need be.
async function obtainIronPickaxe(bot) {
  if (await hasPickaxe(bot, "iron")) return;
  await obtainStonePickaxe(bot);
  await obtainSword(bot);
  await obtainSticks(bot, 2);
  await obtainIngots(bot, "iron", 3);
  await setUpTable(bot);
  await craftItem(bot, "iron_pickaxe", 1);
}
