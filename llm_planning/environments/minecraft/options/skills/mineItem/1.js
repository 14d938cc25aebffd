// Mines count of a block, or of the item that blocks give. The pickaxe has to be there.
async function mineItem(bot, item, count = 1) {
  // What is mined for its item, or gives another one: [block, item, the least that one gives].
  const drops = [
    ["stone", "cobblestone", 1],
    ["coal_ore", "coal", 1],
    ["redstone_ore", "redstone", 4],
    ["diamond_ore", "diamond", 1],
    ["lapis_ore", "lapis_lazuli", 4],
    ["grass_block", "dirt", 1],
    ["clay", "clay_ball", 4],
    ["gravel", "flint", 1],
    ["grass", "wheat_seeds", 1],
    ["oak_leaves", "apple", 1],
  ];
  const [, product, least] = drops.find(([block]) => block === item) ?? [item, item, 1];
  const blocks = [item, ...drops.filter((drop) => drop[1] === item).map(([block]) => block)];
  const wanted = bot.inventory.count(product) + count * least;
  for (let tries = 0; bot.inventory.count(product) < wanted; tries++) {
    if (tries === 40) throw new Error(`${count} ${item} were not found in ${tries} tries`);
    if (blocks.some((block) => bot.sees(block))) {
      const missing = wanted - bot.inventory.count(product);
      await mineBlock(bot, item, Math.min(Math.ceil(missing / least), 64));
    } else {
      await exploreUntil(bot, blocks[blocks.length - 1]);
    }
  }
}
