// Fills a bucket with lava, and makes the bucket.
async function collectLavaBucket(bot) {
  await keepTrying(
    () => bot.inventory.count("lava_bucket") > 0,
    async () => {
      await obtainBucket(bot);
      await collectNear(bot, "lava", 1);
    },
  );
}
