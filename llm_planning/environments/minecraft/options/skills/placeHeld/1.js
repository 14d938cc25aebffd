// Puts blocks from the inventory down, beside the bot.
async function placeHeld(bot, item, count = 1) {
  for (let placed = 0; placed < count; placed++) {
    await placeItem(bot, item, bot.entity.position.offset(1, 0, placed));
  }
}
