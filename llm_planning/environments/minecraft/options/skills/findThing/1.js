// Explores until a block, an animal or a biome is in view.
async function findThing(bot, thing) {
  for (let tries = 0; !bot.sees(thing); tries++) {
    if (tries === 40) throw new Error(`no ${thing} was seen in ${tries} tries`);
    await exploreUntil(bot, thing);
  }
}
