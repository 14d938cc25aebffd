// Fills count buckets from the inventory with the milk of a cow, wherever one is.
async function milkNear(bot, item, count = 1) {
  await findThing(bot, "cow");
  await useOnMob(bot, "bucket", "cow", count);
}
