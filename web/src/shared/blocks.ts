// The page's data: inert script elements, each a gzip'd block in base64. See viewer/page.py.

/** The bytes of a block, inflated; null if the page has no such block. */
export async function readBlock(name: string): Promise<Uint8Array<ArrayBuffer> | null> {
  const holder = document.getElementById(`block-${name}`);
  if (holder === null) return null;
  const packed = fromBase64(holder.textContent ?? "");
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** The value of a block of JSON. */
export async function readJson<T>(name: string): Promise<T | null> {
  const bytes = await readBlock(name);
  return bytes === null ? null : (JSON.parse(new TextDecoder().decode(bytes)) as T);
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}
