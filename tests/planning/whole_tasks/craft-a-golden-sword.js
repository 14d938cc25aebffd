// Crafts a golden sword from bare hands: pickaxes up to iron, gold from below ground, a furnace.
async function craftGoldenSword(bot) {
  await keepTrying(
    () => bot.inventory.count("golden_sword") > 0,
    async () => {
      await obtainIronPickaxe(bot);
      await obtainSticks(bot, 1);
      await obtainIngots(bot, "gold", 2);
      await setUpTable(bot);
      await craftItem(bot, "golden_sword", 1);
    },
  );
}
