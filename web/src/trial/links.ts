// The place in the page as its address: `#node=12&moment=40`, of a second trace `#b.node=…`.

/** What the address says, by name. */
export function read(): Map<string, number> {
  const found = new Map<string, number>();
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
    const number = Number(value);
    if (value !== "" && Number.isSafeInteger(number) && number >= 0) found.set(name, number);
  }
  return found;
}

/** Changes the address without a step in the history, so that going back leaves the page. */
export function write(changes: Record<string, number | null>): void {
  const parameters = new URLSearchParams(location.hash.slice(1));
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) parameters.delete(name);
    else parameters.set(name, String(value));
  }
  const words = parameters.toString();
  const hash = words === "" ? "" : `#${words}`;
  if (hash !== location.hash) history.replaceState(null, "", hash || location.pathname);
}
