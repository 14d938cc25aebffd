// Sees to it that there is an empty bucket, from bare hands if need be.
async function obtainBucket(bot) {
  if (bot.inventory.count("bucket") > 0) return;
  await obtainStonePickaxe(bot);
  await obtainSword(bot);
  await obtainIngots(bot, "iron", 3);
  await setUpTable(bot);
  await craftItem(bot, "bucket", 1);
}
