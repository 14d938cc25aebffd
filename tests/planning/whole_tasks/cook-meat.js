// Cooks a piece of meat: hunts an animal, builds a furnace, and cooks what it left.
async function cookMeat(bot) {
  const raw = ["porkchop", "beef", "chicken", "mutton"];
  const animals = ["pig", "cow", "chicken", "sheep"];
  const held = () => raw.find((meat) => bot.inventory.count(meat) > 0);
  const isDone = () => raw.some((meat) => bot.inventory.count(`cooked_${meat}`) > 0);
  await keepTrying(isDone, async () => {
    await obtainWoodenPickaxe(bot);
    await obtainFuel(bot, 1);
    await setUpFurnace(bot);
    if (held() === undefined) {
      await killMobs(bot, animals.find((animal) => bot.sees(animal)) ?? "pig", 1);
    }
    await setUpFurnace(bot);
    await cookItem(bot, held(), 1);
  });
}
