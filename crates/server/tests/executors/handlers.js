// What the executors for Node offer. Each handler gets the run as the admin sent it, a way to log, and a way to ask
// whether it was killed.
'use strict'

const fs = require('node:fs')

const STEP = 50

function record(handler, run) {
  const { logId, jobId, executorParams: params, broadcastIndex, broadcastTotal } = run
  const line = { handler, logId, jobId, params, shard: `${broadcastIndex}/${broadcastTotal}`, at: Date.now() }
  fs.appendFileSync(process.env.RECORD, `${JSON.stringify(line)}\n`)
}

async function pause(millis, isKilled) {
  const until = Date.now() + millis
  while (Date.now() < until) {
    if (isKilled()) throw new Error('killed')
    await new Promise((resolve) => setTimeout(resolve, STEP))
  }
}

const handlers = {
  async ok(run) {
    return `did ${run.executorParams}`
  },
  async fail(run) {
    throw new Error(`cannot do ${run.executorParams}`)
  },
  async sleep(run, log, isKilled) {
    await pause(Number(run.executorParams) * 1000, isKilled)
    return `slept ${run.executorParams}`
  },
  async chatty(run, log, isKilled) {
    const count = Number(run.executorParams)
    for (let number = 1; number <= count; number++) {
      log(`line ${number} of ${count}`)
      await pause(100, isKilled)
    }
    return `said ${count}`
  },
  async crash() {
    process.exit(3)
  },
}

/** The handlers, each writing down that it was called before it does anything else. */
module.exports = Object.entries(handlers).map(([name, work]) => [
  name,
  async (run, log, isKilled) => {
    record(name, run)
    log(`params ${run.executorParams}, shard ${run.broadcastIndex}/${run.broadcastTotal}`)
    return await work(run, log, isKilled)
  },
])
