// What every script of a peer has in common: the job that is inserted, and how a figure is told.

export const count = Number(process.argv[3]);
export const address = process.argv[2];
export const BATCH = 1000;

// About a hundred bytes, as ours.
export const payload = (number) => ({
  order: "0123456789abcdef",
  amount: "17.90",
  currency: "EUR",
  number,
  note: "a no-op of a hundred bytes",
});

function* batches() {
  for (let from = 0; from < count; from += BATCH) {
    const length = Math.min(BATCH, count - from);
    yield Array.from({ length }, (_, index) => payload(from + index));
  }
}

// Inserts everything, with as many requests at once as ours.
const AT_ONCE = 4;
export async function insertAll(insert) {
  const all = batches();
  const one = async () => {
    for (const batch of all) await insert(batch);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
}

// A figure counts only if every job was done once.
export function tell(peer, what, begun, done = count) {
  const seconds = Number(process.hrtime.bigint() - begun) / 1e9;
  console.log(JSON.stringify({ peer, what, count: done, seconds, rate: done / seconds }));
  if (done !== count) {
    console.error(`${peer}: of ${count} jobs ${done} were done`);
    process.exitCode = 1;
  }
}

export const now = () => process.hrtime.bigint();

// Waits until a function answers true.
export async function until(isDone, every = 5) {
  while (!(await isDone())) await new Promise((wake) => setTimeout(wake, every));
}
