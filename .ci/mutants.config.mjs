// Settings of StrykerJS for one folder; `mutants.mjs` runs it.
const [name, ...inside] = process.env.MUTANTS.split('/')
const cache = 'node_modules/.cache'

export default {
  plugins: [new URL('mutants-runner.mjs', import.meta.url).href],
  testRunner: 'tests-in-one-process',
  testRunnerNodeArgs: [`--import=${new URL('load-tests.mjs', import.meta.url).href}`],
  // Each run leaves its modules behind.
  maxTestRunnerReuse: 60,
  // In a copy, the names of packages would lead to the originals.
  inPlace: true,
  mutate: [`${['packages', name, 'dist', ...inside].join('/')}/**/*.js`, '!**/bundle/**'],
  ignorePatterns: ['**', `!packages/${name}/dist/**/*.js`],
  ignorers: ['what-the-compiler-adds'],
  // Messages and names are no decisions.
  mutator: { excludedMutations: ['StringLiteral'] },
  coverageAnalysis: 'perTest',
  ignoreStatic: true,
  timeoutMS: 10_000,
  concurrency: Number(process.env.MUTANTS_JOBS),
  reporters: ['clear-text', 'progress-append-only', 'json'],
  jsonReporter: { fileName: `${cache}/mutants.json` },
  clearTextReporter: { allowColor: false, reportTests: false },
  tempDirName: `${cache}/stryker`,
}
