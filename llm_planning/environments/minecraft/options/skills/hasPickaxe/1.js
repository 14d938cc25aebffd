// Whether there is a pickaxe of this material or a better one.
async function hasPickaxe(bot, least) {
  const materials = ["wooden", "stone", "iron", "diamond"];
  const good = materials.slice(materials.indexOf(least));
  return good.some((material) => bot.inventory.count(`${material}_pickaxe`) > 0);
}
