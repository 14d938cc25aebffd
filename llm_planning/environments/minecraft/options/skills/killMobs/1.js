// Kills count animals or monsters of a kind, wherever they are.
async function killMobs(bot, mob, count = 1) {
  for (let left = count; left > 0; ) {
    await findThing(bot, mob);
    const now = Math.min(left, bot.nearby(mob).count);
    // It is false if the bot was killed, and so is what it had taken.
    left = (await killMob(bot, mob, now)) ? left - now : count;
  }
}
