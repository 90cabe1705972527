// graphile-worker: inserted with addJobs, executed with a local queue and batched completion, as its page about performance says.

import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";
import { address, count, insertAll, now, tell, until } from "./told.mjs";

const PEER = "graphile-worker";
// A line for every job would cost more than the job.
const logger = new Logger(() => () => {});
const utils = await makeWorkerUtils({ connectionString: address, logger });
await utils.migrate();

let begun = now();
await insertAll((batch) => utils.addJobs(batch.map((payload) => ({ identifier: "noop", payload }))));
tell(PEER, "insert", begun);
await utils.release();

const client = new pg.Client(address);
await client.connect();
await client.query("analyze");
const left = async () => Number((await client.query("select count(*) from graphile_worker.jobs")).rows[0].count);

const seen = new Set();
begun = now();
const runner = await run({
  preset: {
    worker: {
      connectionString: address,
      logger,
      maxPoolSize: 12,
      concurrentJobs: 100,
      pollInterval: 1000,
      localQueue: { size: 500 },
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
    },
  },
  noHandleSignals: true,
  taskList: { noop: async (payload) => void seen.add(payload.number) },
});
await until(() => seen.size === count);
// Completion is part of it: a job that is done is deleted.
await until(async () => (await left()) === 0, 10);
tell(PEER, "execute", begun, seen.size);
await runner.stop();
await client.end();
process.exit();
