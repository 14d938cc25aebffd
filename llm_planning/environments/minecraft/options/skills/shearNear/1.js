// Shears count sheep, wherever they are, with shears from the inventory.
async function shearNear(bot, item, count = 1) {
  for (let left = count; left > 0; ) {
    await findThing(bot, "sheep");
    const now = Math.min(left, bot.nearby("sheep").count);
    left = (await useOnMob(bot, "shears", "sheep", now)) ? left - now : count;
  }
}
