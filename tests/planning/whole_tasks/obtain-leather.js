// Obtains leather: hunts cows until one leaves some.
async function obtainLeather(bot) {
  await keepTrying(
    () => bot.inventory.count("leather") > 0,
    () => killMobs(bot, "cow", 1),
  );
}
