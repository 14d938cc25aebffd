// Crafts an item from what is in the inventory.
async function craftHeld(bot, item, count = 1) {
  await craftItem(bot, item, count);
}
