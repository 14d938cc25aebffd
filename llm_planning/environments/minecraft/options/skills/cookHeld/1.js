// Cooks food that is in the inventory, in a furnace that is there.
async function cookHeld(bot, item, count = 1) {
  await cookItem(bot, item, count);
}
