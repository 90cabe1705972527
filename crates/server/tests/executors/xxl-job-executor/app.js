// An executor made with the npm package @dalongrong/xxl-job-executor, on Express 4.
'use strict'

const { ADMIN, APP, HOST, PORT, TOKEN = '', LOGS, STURDY } = process.env

// The package reads its settings from the environment, and wants a token.
process.env.XXL_JOB_SCHEDULE_CENTER_URL = ADMIN
process.env.XXL_JOB_EXECUTOR_KEY = APP
process.env.XXL_JOB_ACCESS_TOKEN = TOKEN
process.env.XXL_JOB_JOB_LOG_PATH = LOGS
process.env.XXL_JOB_DEBUG_LOG = 'true'

// Params that are not JSON are thrown at nobody, and Node ends the process for that.
if (STURDY) process.on('unhandledRejection', (error) => console.error(`unhandled: ${error.message}`))

const express = require('express')
const XxlJobExecutor = require('@dalongrong/xxl-job-executor')
const handlers = require('../handlers')

// A handler is not told which run it is for. The name of its logger says so, and the request says the rest.
const runs = new Map()
const runOf = (logger) => runs.get(Number(/-(\d+)-executing$/.exec(logger.info.namespace)[1]))

const jobHandlers = new Map(
  handlers.map(([name, handle]) => [name, (logger) => handle(runOf(logger), logger.info, () => false)]),
)

const app = express()
app.use(express.json())
app.use('/job/run', (request, response, next) => {
  runs.set(request.body.logId, request.body)
  next()
})

app.listen(Number(PORT), HOST, () => {
  const executor = new XxlJobExecutor(jobHandlers)
  executor.applyMiddleware({ app, appType: 'EXPRESS', appDomain: `http://${HOST}:${PORT}`, path: '/job' })
  process.once('SIGTERM', () => executor.close().finally(() => process.exit(0)))
})
