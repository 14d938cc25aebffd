// The bot that a program sees, and the functions it acts with. Each call is one option of the world.
(() => {
  "use strict";
  const call = globalThis.__call;
  delete globalThis.__call;
  let seen = call("look", []);

  class Position {
    constructor(x, y, z) {
      Object.assign(this, { x, y, z });
    }
    offset(dx, dy, dz) {
      return new Position(this.x + dx, this.y + dy, this.z + dz);
    }
  }
  const kinds = () => ({ ...seen.blocks, ...seen.entities });
  const own = (record, name) => (Object.hasOwn(record, name) ? record[name] : null);

  const bot = Object.freeze({
    chat: (text) => {
      call("chat", [String(text)]);
    },
    inventory: Object.freeze({
      count: (name) => own(seen.inventory, name) ?? 0,
      items: () => Object.entries(seen.inventory).map(([name, count]) => ({ name, count })),
    }),
    entity: Object.freeze({
      get position() {
        return new Position(...seen.position);
      },
    }),
    sees: (name) => name === seen.biome || Object.hasOwn(kinds(), name),
    nearby: (name) => own(kinds(), name),
    wears: (name) => seen.equipment.includes(name),
    get equipment() {
      return [...seen.equipment];
    },
    get biome() {
      return seen.biome;
    },
    get timeOfDay() {
      return seen.time;
    },
    get health() {
      return seen.health;
    },
    get food() {
      return seen.hunger;
    },
  });

  const control = (name) =>
    async function (first, ...given) {
      if (first !== bot) throw new Error(`${name}: the first argument must be bot`);
      const reply = call(name, given);
      seen = reply.look;
      return reply.done;
    };

  const names = [/* functions */];
  const functions = Object.fromEntries(names.map((name) => [name, control(name)]));
  for (const [name, value] of Object.entries({ bot, ...functions })) {
    Object.defineProperty(globalThis, name, { value, enumerable: true });
  }
})();
