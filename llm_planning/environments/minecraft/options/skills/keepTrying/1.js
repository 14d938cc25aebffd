// Tries until it is done, from anew if it failed, as after a death.
async function keepTrying(isDone, attempt) {
  for (let tries = 0; !isDone(); tries++) {
    try {
      await attempt();
    } catch (error) {
      if (tries >= 30) throw error;
    }
  }
}
