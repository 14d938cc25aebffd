// Takes an item from the inventory in hand, or puts armour on.
async function equipHeld(bot, item) {
  await equipItem(bot, item);
}
