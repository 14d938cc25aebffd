// Fills count buckets from the inventory with water or lava, wherever it is.
async function collectNear(bot, item, count = 1) {
  const fluid = item.replace("_bucket", "");
  for (let left = count; left > 0; ) {
    await findThing(bot, fluid);
    const now = Math.min(left, bot.nearby(fluid).count);
    left = (await fillBucket(bot, fluid, now)) ? left - now : count;
  }
}
