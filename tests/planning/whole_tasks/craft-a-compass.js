// Crafts a compass from bare hands: an iron pickaxe, four more ingots of iron, and redstone.
async function craftCompass(bot) {
  await keepTrying(
    () => bot.inventory.count("compass") > 0,
    async () => {
      await obtainIronPickaxe(bot);
      await obtainIngots(bot, "iron", 4);
      await obtainGem(bot, "redstone", "redstone_ore", 1);
      await setUpTable(bot);
      await craftItem(bot, "compass", 1);
    },
  );
}
