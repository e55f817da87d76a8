export * from './build-info.js'
export * from './build-libraries.js'
export {
  libraryName,
  type ProgramOptions,
  type ProgramResult,
  type RunProgram,
} from './cmake-project.js'
export { installedSource, sourcePart } from './build-libraries.js'
export * from './library-store.js'
