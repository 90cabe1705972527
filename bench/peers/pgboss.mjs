// pg-boss: inserted with insert, executed by fetching and completing whole batches, the fastest way that it documents.

import { PgBoss } from "pg-boss";
import { BATCH, address, count, insertAll, now, tell } from "./told.mjs";

const PEER = "pg-boss";
const LOOPS = 4;
const boss = new PgBoss({ connectionString: address, max: 12, supervise: false, schedule: false });
boss.on("error", (error) => console.error(`${PEER}: ${error.message}`));
await boss.start();
await boss.createQueue("noop");

let begun = now();
await insertAll((batch) => boss.insert("noop", batch.map((data) => ({ data }))));
tell(PEER, "insert", begun);

const seen = new Set();
begun = now();
const drain = async () => {
  for (;;) {
    const jobs = await boss.fetch("noop", { batchSize: BATCH });
    if (jobs.length === 0) {
      if (seen.size >= count) return;
      continue;
    }
    for (const job of jobs) seen.add(job.data.number);
    await boss.complete("noop", jobs.map((job) => job.id));
  }
};
await Promise.all(Array.from({ length: LOOPS }, drain));
tell(PEER, "execute", begun, seen.size);
await boss.stop({ graceful: false });
process.exit();
