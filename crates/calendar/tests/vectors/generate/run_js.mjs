// Asks croner or cron-parser: `node run_js.mjs croner|cron-parser`. Same protocol as run_python.py.
import { createInterface } from 'node:readline'

const engines = {
  croner: async () => {
    const { Cron } = await import('croner')
    return (dialect, expression, timezone, after, count) => {
      const quartz = dialect === 'quartz'
      const cron = new Cron(expression, { timezone, alternativeWeekdays: quartz, sloppyRanges: quartz })
      return cron.nextRuns(count, after)
    }
  },
  'cron-parser': async () => {
    const { CronExpressionParser } = await import('cron-parser')
    return (_dialect, expression, tz, after, count) => {
      const cron = CronExpressionParser.parse(expression, { tz, currentDate: after })
      return Array.from({ length: count }, () => cron.next().toDate())
    }
  },
}

const ask = await engines[process.argv[2]]()
for await (const line of createInterface({ input: process.stdin })) {
  const [dialect, expression, zone, after, count] = line.split('\t')
  try {
    const answers = ask(dialect, expression, zone, new Date(after), Number(count))
    console.log(answers.map((t) => t.toISOString().replace('.000Z', 'Z')).join(','))
  } catch (e) {
    console.log('!' + e.constructor.name)
  }
}
