// Server-sent events, read from a response body. EventSource cannot send a token, so the format is read here.

export interface Sent {
  id: string | null;
  name: string;
  data: string;
}

/** Cuts a stream of text into events. Feed it pieces as they come. */
export class EventCutter {
  private rest = "";

  feed(piece: string): Sent[] {
    this.rest += piece;
    const blocks = this.rest.split(/\r?\n\r?\n/);
    this.rest = blocks.pop() ?? "";
    return blocks.map(cut).filter((event): event is Sent => event !== null);
  }
}

function cut(block: string): Sent | null {
  let [id, name, data]: [string | null, string, string[]] = [null, "message", []];
  for (const line of block.split(/\r?\n/)) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const [field, value] = [line.slice(0, colon), line.slice(colon + 1).replace(/^ /, "")];
    if (field === "id") id = value;
    if (field === "event") name = value;
    if (field === "data") data.push(value);
  }
  return data.length > 0 ? { id, name, data: data.join("\n") } : null;
}

/** Reads a body to its end, one call for every batch of events that came together. */
export async function readEvents(body: ReadableStream<Uint8Array>, take: (events: Sent[]) => void): Promise<void> {
  const reader = body.getReader();
  const text = new TextDecoder();
  const cutter = new EventCutter();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = cutter.feed(text.decode(value, { stream: true }));
    if (events.length > 0) take(events);
  }
}
