import { runSuite } from '../../../../../.ci/suite.mjs'

await runSuite(import.meta.url)
