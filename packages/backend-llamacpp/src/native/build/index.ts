export * from './build-info.js'
export {
  buildLibraries,
  buildMediaLibrary,
  type BuildOptions,
  type BuildProgress,
  type BuiltLibrary,
  installedSource,
  shareOf,
  sourcePart,
} from './build-libraries.js'
export {
  libraryName,
  type ProgramOptions,
  type ProgramResult,
  type RunProgram,
} from './cmake-project.js'
export * from './library-store.js'
