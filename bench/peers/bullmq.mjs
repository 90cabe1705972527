// BullMQ: inserted with addBulk, executed by a worker with many at once; finished jobs are removed.

import { Queue, Worker } from "bullmq";
import { address, count, insertAll, now, tell, until } from "./told.mjs";

const PEER = "BullMQ";
const { hostname: host, port } = new URL(address);
const connection = { host, port: Number(port), maxRetriesPerRequest: null };
const queue = new Queue("noop", { connection, defaultJobOptions: { removeOnComplete: true } });
await queue.waitUntilReady();

let begun = now();
await insertAll((batch) => queue.addBulk(batch.map((data) => ({ name: "noop", data }))));
tell(PEER, "insert", begun);

const seen = new Set();
begun = now();
const worker = new Worker("noop", async (job) => void seen.add(job.data.number), { connection, concurrency: 200 });
await until(() => seen.size === count);
await until(async () => {
  const left = await queue.getJobCounts("active", "waiting");
  return left.active === 0 && left.waiting === 0;
});
tell(PEER, "execute", begun, seen.size);
await worker.close(true);
process.exit();
