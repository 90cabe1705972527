// An executor made with the npm package xxl-job, on Express 5.
'use strict'

const fs = require('node:fs')
const express = require('express')
const { createXxlJobExecutor } = require('xxl-job')
const handlers = require('../handlers')

const { ADMIN, APP, HOST, PORT, TOKEN = '', LOGS, STURDY } = process.env

// It writes to the folder `logs` of wherever it was started.
fs.mkdirSync(LOGS, { recursive: true })
process.chdir(LOGS)

// The package lets every failed call to the admin go unhandled, and Node ends the process for that.
if (STURDY) process.on('unhandledRejection', (error) => console.error(`unhandled: ${error.message}`))

const jobHandlers = new Map(
  handlers.map(([name, handle]) => [
    name,
    (logger, run) => handle(run, (line) => logger.info(line), run.isKill),
  ]),
)

const app = express()
app.use(express.json())

app.listen(Number(PORT), HOST, () => {
  const executor = createXxlJobExecutor({
    app,
    jobHandlers,
    accessToken: TOKEN,
    executorKey: APP,
    baseUrl: `http://${HOST}:${PORT}`,
    scheduleCenterUrl: ADMIN,
    logStorage: 'local',
  })
  executor.initialization()
  process.once('SIGTERM', () => executor.cancel().finally(() => process.exit(0)))
})
