// Smelts what is in the inventory, in a furnace that is there.
async function smeltHeld(bot, item, count = 1) {
  await smeltItem(bot, item, count);
}
