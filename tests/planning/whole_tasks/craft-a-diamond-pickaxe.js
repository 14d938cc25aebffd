// Crafts a diamond pickaxe from bare hands: an iron pickaxe, three diamonds, and sticks.
async function craftDiamondPickaxe(bot) {
  await keepTrying(
    () => bot.inventory.count("diamond_pickaxe") > 0,
    async () => {
      await obtainIronPickaxe(bot);
      await obtainSticks(bot, 2);
      await obtainGem(bot, "diamond", "diamond_ore", 3);
      await setUpTable(bot);
      await craftItem(bot, "diamond_pickaxe", 1);
    },
  );
}
