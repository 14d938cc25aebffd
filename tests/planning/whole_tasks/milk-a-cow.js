// Milks a cow, and makes the bucket.
async function milkCow(bot) {
  await keepTrying(
    () => bot.inventory.count("milk_bucket") > 0,
    async () => {
      await obtainBucket(bot);
      await milkNear(bot, "cow", 1);
    },
  );
}
