// Loaded into each process of a server by `measure-way.mjs`: at SIGUSR2 it writes which files of ours ran since the last
// time, each with the number of its functions that did.
import { renameSync, writeFileSync } from 'node:fs'
import { Session } from 'node:inspector'
import { join } from 'node:path'

const session = new Session()
session.connect()
session.post('Profiler.enable')
session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
let round = 0
/** Which of the processes this one is: a file counts once in each. */
const who = process.argv[1]?.endsWith('cllm.js') ? 'server' : 'engine'

process.on('SIGUSR2', () => {
  session.post('Profiler.takePreciseCoverage', (error, { result }) => {
    if (error !== null) throw error
    const ran = result.flatMap(({ url, functions }) => {
      const file = /\/packages\/([^/]+\/dist\/.*)/.exec(url)?.[1]
      if (file === undefined) return []
      // The module itself is a function, too, without a name and at its very start.
      const named = functions.filter(
        (one) => one.functionName !== '' || one.ranges[0].startOffset > 0,
      )
      const called = named.filter(({ ranges }) => ranges[0].count > 0).length
      return called === 0 ? [] : [{ file: `${who} ${file}`, functions: called }]
    })
    const name = `${round++}-${process.pid}`
    const folder = process.env.COUNT_CALLS_FOLDER
    writeFileSync(join(folder, `.${name}`), JSON.stringify(ran))
    renameSync(join(folder, `.${name}`), join(folder, name)) // read when it is whole
  })
})
